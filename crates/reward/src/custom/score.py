"""The Python side of a reward function: loads it, shows it images that lie in shared memory, and gives its numbers back.

It runs in the user's interpreter (3.8 or later) and needs numpy. link.py of crate pyprocess stands before it in the same program.

    in    u32 length, JSON   settings; later the layout of the shared memory; then for each call its images
    out   b"j"               the function is there
    out   b"k"               done: the numbers lie in shared memory
    out   b"e"               what went wrong
"""


def load(settings):
    """The function that the settings name."""
    path, name = settings["file"], settings["function"]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.argv = [path]
    if not os.path.isfile(path):
        raise Refused("there is no such file")
    spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(path))[0], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if function is None:
        there = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise Refused("there is no function `%s` in it%s" % (name, "; there are " + ", ".join(there) if there else ""))
    if isinstance(function, type) or not callable(function):
        raise Refused("`%s` is a %s, and a function is meant (or an object that can be called)" % (name, type(function).__name__))
    return function


def numbers(value, count):
    """What the function returned, as `count` numbers."""
    if hasattr(value, "detach"):  # a tensor of torch, on whichever device
        value = value.detach().cpu().numpy()
    try:
        found = np.asarray(value)
        kind = found.dtype.kind
    except ValueError as error:
        raise Refused("it returned %s, and %d numbers are meant (%s)" % (type(value).__name__, count, error))
    if kind not in "fiub":
        raise Refused("it returned %s, and %d numbers are meant" % (type(value).__name__, count))
    if found.size != count or found.ndim > 2 or (found.ndim == 2 and found.shape[1] != 1):
        raise Refused("it returned numbers of shape %s for %d images; one for each is meant" % (found.shape, count))
    return found.reshape(count).astype(np.float32)


def images(call, shared):
    """The images of a call: an array, or one for each camera by its name. The function may keep and change them."""
    views = {}
    for name, shape, offset in call["views"]:
        size = int(np.prod(shape, dtype=np.int64))
        views[name] = np.array(shared[offset : offset + size].reshape(shape))
    return views if len(views) > 1 else next(iter(views.values()))


def report(error, settings):
    """What plaudit is told. Of a traceback, what is about the function and what it called."""
    told = report_of(error, ("numpy",))
    inside, at = [], error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename != "plaudit-bridge.py":
            inside = traceback.format_exception(type(error), error, at)
            break
        at = at.tb_next
    if told["kind"] == "raised":
        lines = "".join(inside).rstrip().splitlines()[:-1] if inside else []
        told["traceback"] = "\n".join(lines[-24:])
    return told


def main():
    global np
    link = Link()
    die_with_parent()
    explain_crashes()
    settings = link.read_json()
    try:
        import numpy as np

        function = load(settings)
        link.send(b"j", {})
        arrays = link.map(link.read_json())
        os.write(link.socket, b"k")
    except EOFError:
        return
    except BaseException as error:  # sys.exit() in a module as well
        link.send(b"e", report(error, settings))
        return
    while True:
        try:
            call = link.read_json()
        except EOFError:
            return
        try:
            count = call["count"]
            arrays["scores"][:count] = numbers(function(images(call, arrays["images"])), count)
            os.write(link.socket, b"k")
        except (BrokenPipeError, ConnectionResetError):
            return
        except BaseException as error:
            link.send(b"e", report(error, settings))


main()
