"""What this is for."""
print(__doc__)
