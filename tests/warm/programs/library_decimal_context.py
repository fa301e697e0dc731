import decimal
import threading
context = decimal.getcontext()
print(context)
print(decimal.Decimal(1) / decimal.Decimal(3))
context.prec = 5
print(decimal.Decimal(1) / 3, context.flags[decimal.Inexact])
thread = threading.Thread(target=lambda: print(decimal.getcontext().prec))
thread.start()
thread.join()
with decimal.localcontext(prec=2):
    print(+decimal.Decimal("1.2345"))
decimal.Decimal("x")
