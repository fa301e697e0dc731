first, second = ValueError(1), ValueError(2)
first.__cause__, second.__cause__ = second, first
raise first
