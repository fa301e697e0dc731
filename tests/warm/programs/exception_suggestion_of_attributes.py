import math
math.sqroot(2)
