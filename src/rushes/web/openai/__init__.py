"""The routes of OpenAI's speech API."""
