"""What a training run chooses: its options, beta, and the number of neurons."""
