import multiprocessing


def cube(n):
    return n ** 3


if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print(pool.map(cube, range(10)))
        try:
            pool.apply(int, ("x",))
        except ValueError as error:
            print(error)
