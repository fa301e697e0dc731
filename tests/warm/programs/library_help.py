help(len)
help("keywords")
