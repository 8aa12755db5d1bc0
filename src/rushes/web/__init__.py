"""The HTTP edge: who asks, what they may, and how it is said. No SQL, no rules of its own."""
