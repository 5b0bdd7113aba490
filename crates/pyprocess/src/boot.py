import linecache, os, struct
def read(count):
    parts = b""
    while len(parts) < count:
        part = os.read(0, count - len(parts))
        if not part:
            os._exit(1)
        parts += part
    return parts
source, name = read(struct.unpack("<I", read(4))[0]).decode(), "plaudit-bridge.py"
linecache.cache[name] = (len(source), None, source.splitlines(True), name)
exec(compile(source, name, "exec"), {"__name__": "plaudit_bridge"})
