def f0(a, b=0):
    """Function 0."""
    return [a + b + n for n in range(0)]


def f1(a, b=1):
    """Function 1."""
    return [a + b + n for n in range(1)]


def f2(a, b=2):
    """Function 2."""
    return [a + b + n for n in range(2)]


def f3(a, b=3):
    """Function 3."""
    return [a + b + n for n in range(3)]


def f4(a, b=4):
    """Function 4."""
    return [a + b + n for n in range(4)]


def f5(a, b=5):
    """Function 5."""
    return [a + b + n for n in range(5)]


def f6(a, b=6):
    """Function 6."""
    return [a + b + n for n in range(6)]


def f7(a, b=7):
    """Function 7."""
    return [a + b + n for n in range(0)]


def f8(a, b=8):
    """Function 8."""
    return [a + b + n for n in range(1)]


def f9(a, b=9):
    """Function 9."""
    return [a + b + n for n in range(2)]


def f10(a, b=10):
    """Function 10."""
    return [a + b + n for n in range(3)]


def f11(a, b=11):
    """Function 11."""
    return [a + b + n for n in range(4)]


def f12(a, b=12):
    """Function 12."""
    return [a + b + n for n in range(5)]


def f13(a, b=13):
    """Function 13."""
    return [a + b + n for n in range(6)]


def f14(a, b=14):
    """Function 14."""
    return [a + b + n for n in range(0)]


def f15(a, b=15):
    """Function 15."""
    return [a + b + n for n in range(1)]


def f16(a, b=16):
    """Function 16."""
    return [a + b + n for n in range(2)]


def f17(a, b=17):
    """Function 17."""
    return [a + b + n for n in range(3)]


def f18(a, b=18):
    """Function 18."""
    return [a + b + n for n in range(4)]


def f19(a, b=19):
    """Function 19."""
    return [a + b + n for n in range(5)]


def f20(a, b=20):
    """Function 20."""
    return [a + b + n for n in range(6)]


def f21(a, b=21):
    """Function 21."""
    return [a + b + n for n in range(0)]


def f22(a, b=22):
    """Function 22."""
    return [a + b + n for n in range(1)]


def f23(a, b=23):
    """Function 23."""
    return [a + b + n for n in range(2)]


def f24(a, b=24):
    """Function 24."""
    return [a + b + n for n in range(3)]


def f25(a, b=25):
    """Function 25."""
    return [a + b + n for n in range(4)]


def f26(a, b=26):
    """Function 26."""
    return [a + b + n for n in range(5)]


def f27(a, b=27):
    """Function 27."""
    return [a + b + n for n in range(6)]


def f28(a, b=28):
    """Function 28."""
    return [a + b + n for n in range(0)]


def f29(a, b=29):
    """Function 29."""
    return [a + b + n for n in range(1)]


def f30(a, b=30):
    """Function 30."""
    return [a + b + n for n in range(2)]


def f31(a, b=31):
    """Function 31."""
    return [a + b + n for n in range(3)]


def f32(a, b=32):
    """Function 32."""
    return [a + b + n for n in range(4)]


def f33(a, b=33):
    """Function 33."""
    return [a + b + n for n in range(5)]


def f34(a, b=34):
    """Function 34."""
    return [a + b + n for n in range(6)]


def f35(a, b=35):
    """Function 35."""
    return [a + b + n for n in range(0)]


def f36(a, b=36):
    """Function 36."""
    return [a + b + n for n in range(1)]


def f37(a, b=37):
    """Function 37."""
    return [a + b + n for n in range(2)]


def f38(a, b=38):
    """Function 38."""
    return [a + b + n for n in range(3)]


def f39(a, b=39):
    """Function 39."""
    return [a + b + n for n in range(4)]


def f40(a, b=40):
    """Function 40."""
    return [a + b + n for n in range(5)]


def f41(a, b=41):
    """Function 41."""
    return [a + b + n for n in range(6)]


def f42(a, b=42):
    """Function 42."""
    return [a + b + n for n in range(0)]


def f43(a, b=43):
    """Function 43."""
    return [a + b + n for n in range(1)]


def f44(a, b=44):
    """Function 44."""
    return [a + b + n for n in range(2)]


def f45(a, b=45):
    """Function 45."""
    return [a + b + n for n in range(3)]


def f46(a, b=46):
    """Function 46."""
    return [a + b + n for n in range(4)]


def f47(a, b=47):
    """Function 47."""
    return [a + b + n for n in range(5)]


def f48(a, b=48):
    """Function 48."""
    return [a + b + n for n in range(6)]


def f49(a, b=49):
    """Function 49."""
    return [a + b + n for n in range(0)]


def f50(a, b=50):
    """Function 50."""
    return [a + b + n for n in range(1)]


def f51(a, b=51):
    """Function 51."""
    return [a + b + n for n in range(2)]


def f52(a, b=52):
    """Function 52."""
    return [a + b + n for n in range(3)]


def f53(a, b=53):
    """Function 53."""
    return [a + b + n for n in range(4)]


def f54(a, b=54):
    """Function 54."""
    return [a + b + n for n in range(5)]


def f55(a, b=55):
    """Function 55."""
    return [a + b + n for n in range(6)]


def f56(a, b=56):
    """Function 56."""
    return [a + b + n for n in range(0)]


def f57(a, b=57):
    """Function 57."""
    return [a + b + n for n in range(1)]


def f58(a, b=58):
    """Function 58."""
    return [a + b + n for n in range(2)]


def f59(a, b=59):
    """Function 59."""
    return [a + b + n for n in range(3)]


print(sum(len(f(1)) for name, f in sorted(globals().items()) if name.startswith("f") and name[1:].isdigit()))
