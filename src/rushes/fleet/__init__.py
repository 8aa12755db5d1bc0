"""Who may work: the workers, what they can do, and what an admin has said about them."""
