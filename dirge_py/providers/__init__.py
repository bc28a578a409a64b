"""Model services: one file each, all of them `StreamFn` factories."""
