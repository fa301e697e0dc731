#: stdin-repeated "never read\n" 100000
print("done")
