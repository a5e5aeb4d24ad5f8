"""What is kept up to date step by step, recomputed from scratch and compared; and when."""
