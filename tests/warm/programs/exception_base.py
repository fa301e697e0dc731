raise BaseException("base")
