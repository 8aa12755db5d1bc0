"""Webhooks and alerts: events told to other services, signed, at least once, through the queue."""
