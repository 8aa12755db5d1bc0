"""Programs Rushes runs, and what is known about media: mostly pure. No database here."""
