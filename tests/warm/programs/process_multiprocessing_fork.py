import multiprocessing


def square(queue, n):
    queue.put((n * n, multiprocessing.current_process().name))


context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=square, args=(queue, 7))
process.start()
print(queue.get())
process.join()
print(process.exitcode, multiprocessing.active_children(), multiprocessing.get_start_method())
