"""Where values come from and go: reaching writes, liveness, translation validation."""
