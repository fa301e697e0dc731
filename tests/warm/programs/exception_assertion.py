assert 1 + 1 == 2, "fine"
assert [] == [1], "lists differ"
