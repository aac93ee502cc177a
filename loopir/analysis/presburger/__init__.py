"""Linear constraints over integers: isl, and the quick answers before it is asked."""
