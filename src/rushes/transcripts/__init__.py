"""What was said: the canonical document, its captions, people's edits, and searching in it."""
