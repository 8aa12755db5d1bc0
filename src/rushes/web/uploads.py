"""Placeholder until the real one is written (replace this file)."""

from fastapi import APIRouter

router = APIRouter()
