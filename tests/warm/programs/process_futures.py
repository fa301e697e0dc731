import concurrent.futures
import time


def double(n):
    return n * 2


if __name__ == "__main__":
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        print(list(pool.map(double, range(5))), pool.submit(pow, 2, 10).result())
        failing = pool.submit(int, "x")
        print(type(failing.exception()).__name__)
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        print(sorted(future.result() for future in concurrent.futures.as_completed([pool.submit(double, n) for n in range(4)])))
