"""How long a step of training takes on so many machines: a model, its constants as they were measured, and what it says of runs that
were made. docs/scaling.md explains it; this prints its tables. Times are in milliseconds.

    python3 bench/cluster/scaling.py
"""

STEPS = 50  # of each environment in a rollout
BYTES = 2 * 64 * 64 * 3  # two cameras, one step
WEIGHTS = 0.55e6  # what goes to each env process
MEASURED_CORES = 2

# Straight lines through runs in one process with 16, 32 and 64 environments (two cores): start of a phase, and each step of an environment.
PLAY_START, PLAY = 97.0, 0.306 * MEASURED_CORES  # a core's
SCORE_CPU = 1.57 * MEASURED_CORES  # a core's
LEARN = 0.155  # the learner's, on two cores
SCORE_GPU = 0.008  # an H200's, from batches of 256 at 128 x 128: an upper bound for 64 x 64
LINK = 0.6e9 / 1e3  # bytes a millisecond between two machines; copying is the limit, not the wire


def step(workers, envs, cores, gpus, link=LINK, wire=None):
    """The parts of a step: `envs` in all, on `workers` processes of so many cores each; scored on GPUs, or on `cores` where there are none."""
    taken = envs * STEPS
    play = PLAY_START + taken / workers * PLAY / cores
    carried = min(link, wire or link)
    transfer = taken * BYTES / (carried * max(1, min(gpus or 1, workers)))
    score = taken * SCORE_GPU / gpus if gpus else taken * SCORE_CPU / cores
    learn = taken * LEARN
    broadcast = workers * WEIGHTS / carried
    # Frames travel while others are scored.
    parts = {"play": play, "score": max(score, transfer), "learn": learn, "broadcast": broadcast}
    limit = max(parts, key=parts.get)
    return sum(parts.values()), ("transfer" if limit == "score" and transfer > score else limit)


def main():
    print("Runs that were made, two cores in all:\n")
    print("| run | predicted | measured |\n|---|---|---|")
    # Namespaces share the two cores, so several processes there play no faster than one.
    runs = [
        ("one process, 16 environments", (1, 16, 2, 0), {}, "1705"),
        ("one process, 32", (1, 32, 2, 0), {}, "3167 to 3331"),
        ("one process, 64", (1, 64, 2, 0), {}, "6601"),
        ("two machines, 32", (1, 32, 2, 0), {}, "3604 to 3631"),
        ("two machines, 2 env processes, 32", (1, 32, 2, 0), {}, "3273"),
        ("two machines, 2 env processes, 64", (1, 64, 2, 0), {}, "6506"),
        ("two machines, 32, 200 Mbit/s", (1, 32, 2, 0), {"wire": 25e6 / 1e3}, "3672"),
    ]
    for name, shape, more, measured in runs:
        print(f"| {name} | {step(*shape, **more)[0]:.0f} | {measured} |")

    print("\nPredictions: 32 environments for each env process of 8 cores; milliseconds a step (thousands of steps of environments a second).\n")
    gpus = [1, 4, 16, 64]
    print("| env processes | " + " | ".join(f"{count} GPU{'s' if count > 1 else ''}" for count in gpus) + " | longest part with 1, with 64 |")
    print("|---|" + "---|" * (len(gpus) + 1))
    for workers in [2, 4, 8, 16, 64, 256, 1024]:
        found = [step(workers, 32 * workers, 8, count) for count in gpus]
        cells = [f"{time:,.0f} ({workers * 32 * STEPS / time:.1f})" for time, _ in found]
        print(f"| {workers} | " + " | ".join(cells) + f" | {found[0][1]}, {found[-1][1]} |")

    print("\nWithout the learner's part (it is one process, on two cores here), to see what the others would carry:\n")
    print("| env processes | " + " | ".join(f"{count} GPU{'s' if count > 1 else ''}" for count in gpus) + " |")
    print("|---|" + "---|" * len(gpus))
    for workers in [2, 16, 64, 256, 1024]:
        times = [step(workers, 32 * workers, 8, count)[0] - 32 * workers * STEPS * LEARN for count in gpus]
        print(f"| {workers} | " + " | ".join(f"{time:,.0f} ({workers * 32 * STEPS / time:.1f})" for time in times) + " |")


if __name__ == "__main__":
    main()
