"""Who may use Rushes: people, their sessions and tokens, and the keys of workers."""
