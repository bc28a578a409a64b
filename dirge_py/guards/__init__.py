"""Bundles of hooks that may stop or redirect the loop, one file each."""
