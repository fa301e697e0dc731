import logging
logging.warning("to stderr")
logging.basicConfig(level=logging.DEBUG, format="%(levelname)s:%(name)s:%(funcName)s:%(lineno)d:%(processName)s:%(threadName)s:%(message)s")
logging.getLogger("mine").debug("value %d", 3)
try:
    1 / 0
except ZeroDivisionError:
    logging.exception("failed")
logging.getLogger("bad").info("%d", "x")
