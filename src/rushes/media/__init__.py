"""Media and their versions: what was uploaded, and what we made of it."""
