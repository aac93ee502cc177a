"""What every primitive stands on: registration, names, queries, facts at a loop, traces."""
