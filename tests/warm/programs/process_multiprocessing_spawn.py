import multiprocessing


def work(connection):
    connection.send((__name__, "spawned"))


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe()
    process = context.Process(target=work, args=(its,))
    process.start()
    print(ours.recv())
    process.join()
    print(process.exitcode)
