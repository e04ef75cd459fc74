"""The paper of Bartan and Pilanci: its figures, and checks of its theory, by the programs of `qsdp.paper`."""
