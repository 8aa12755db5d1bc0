"""Writing down what is said: the steps, and what they are made of."""
