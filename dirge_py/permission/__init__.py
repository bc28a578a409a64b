"""Decides what tool calls may do, and records which rule decided."""
