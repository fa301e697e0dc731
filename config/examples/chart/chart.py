import matplotlib.pyplot as plt

months, rain_mm = ["Jan", "Feb", "Mar", "Apr"], [71, 48, 55, 39]
plt.bar(months, rain_mm)
plt.ylabel("rain in mm")
plt.savefig("chart.png")
print("drawn:", sum(rain_mm), "mm")
