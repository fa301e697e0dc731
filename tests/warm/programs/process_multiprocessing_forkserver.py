import multiprocessing


def work(number, array):
    number.value += 1
    array[0] = 3


if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    number, array = context.Value("i", 1), context.Array("i", 2)
    process = context.Process(target=work, args=(number, array))
    process.start()
    process.join()
    print(number.value, array[:], process.exitcode)
