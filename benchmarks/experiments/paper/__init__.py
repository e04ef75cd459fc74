"""Figures and theorems of the paper by Bartan and Pilanci."""
