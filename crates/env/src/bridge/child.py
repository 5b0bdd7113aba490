"""The Python side of plaudit's bridge: makes environments, steps them, shows the result in shared memory.

It runs in the user's interpreter (3.8 or later) and needs numpy and gymnasium (0.29 or later), nothing else. link.py
stands before it in the same program.

    in    u32 length, JSON          settings; later the layout of the shared memory
    in    b"r" or b"s", then watch  reset or step; watch is 0 (no images), 1 (of ended episodes) or 2 (all)
    out   b"k"                      done: the answer lies in shared memory
    out   b"j", u32 length, JSON    what the environments are like
    out   b"e", u32 length, JSON    what went wrong
"""

import difflib
import os

ENDS, EVERYTHING = 1, 2
TERMINATED, TRUNCATED = 1, 2
SUCCESS = ("success", "is_success", "episode.success", "episode.is_success")
MOST_CHOICES = 1 << 24  # of one action, which is sent as a float32
SMALLEST_IMAGE = 32  # sides in pixels; smaller arrays of bytes are more likely codes than images


# --------------------------------------------------------------------------------- numbers and observations


def array(value):
    """A numpy array of anything array-like, torch tensors on any device included."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value)


def dig(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def find(info, path):
    """What lies at `path` in nested dictionaries, or None."""
    for key in path:
        if not isinstance(info, dict) or key not in info:
            return None
        info = info[key]
    return info


class Leaf:
    """One array of an observation."""

    def __init__(self, path, shape, dtype, choices=None, name=None):
        self.path, self.shape, self.dtype, self.choices = path, shape, dtype, choices
        self.name, self.plain = name or ".".join(map(str, path)), choices is None

    def width(self):
        return sum(n for _, n in self.choices) if self.choices else int(np.prod(self.shape, dtype=np.int64))

    def image(self, smallest):
        """Height, width, channels and whether channels come first; None if this is not an image."""
        if self.shape is None or self.dtype != np.uint8:
            return None
        shape = self.shape + (1,) if len(self.shape) == 2 and smallest == 1 else self.shape
        for first, order in ((False, (0, 1, 2)), (True, (1, 2, 0))):
            if len(shape) == 3 and shape[order[2]] in (1, 3, 4):
                height, width, channels = (shape[axis] for axis in order)
                if min(height, width) >= smallest:
                    return height, width, channels, first
        return None


def leaves_of_space(space, path=()):
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return [leaf for key, part in space.spaces.items() for leaf in leaves_of_space(part, path + (key,))]
    if isinstance(space, spaces.Tuple):
        return [leaf for at, part in enumerate(space.spaces) for leaf in leaves_of_space(part, path + (at,))]
    if isinstance(space, spaces.Discrete):
        return [Leaf(path, (), np.dtype(int), [(int(space.start), int(space.n))])]
    if isinstance(space, spaces.MultiDiscrete):
        starts = np.asarray(getattr(space, "start", np.zeros_like(space.nvec))).flatten()
        return [Leaf(path, space.shape, space.dtype, list(zip(starts.tolist(), space.nvec.flatten().tolist())))]
    if isinstance(space, (spaces.Box, spaces.MultiBinary)):
        return [Leaf(path, tuple(space.shape), space.dtype)]
    return [] if isinstance(space, spaces.Text) else [Leaf(path, None, None)]


def leaves_of_example(obs, path=()):
    if isinstance(obs, dict):
        return [leaf for key, part in obs.items() for leaf in leaves_of_example(part, path + (key,))]
    return [Leaf(path, array(obs).shape, array(obs).dtype)]


def leaves_of_maniskill(obs):
    """Cameras under their own names; no camera matrices, depths or segmentations among the states."""
    leaves = []
    for leaf in leaves_of_example(obs):
        if leaf.path[:1] == ("sensor_data",):
            if leaf.path[2:] == ("rgb",):
                leaves.append(Leaf(leaf.path, leaf.shape, leaf.dtype, name=leaf.path[1]))
        elif leaf.path[:1] != ("sensor_param",):
            leaves.append(leaf)
    return leaves


def choose(leaves, settings):
    """The leaves that make the state, and the leaves that are cameras with their shapes."""

    def named(wanted):
        chosen = [leaf for leaf in leaves if leaf.name == wanted or leaf.name.startswith(wanted + ".")]
        if not chosen:
            there = ", ".join(repr(leaf.name) for leaf in leaves)
            raise Refused("there is no observation named %r; there are %s" % (wanted, there))
        return chosen

    if settings["cameras"] is None:
        cameras = [(leaf, leaf.image(SMALLEST_IMAGE)) for leaf in leaves]
        cameras = [(leaf, shape) for leaf, shape in cameras if shape]
    else:
        cameras = [(leaf, leaf.image(1)) for wanted in settings["cameras"] for leaf in named(wanted)]
    images = [leaf for leaf, _ in cameras]
    if settings["state"] is None:
        state = [leaf for leaf in leaves if leaf not in images]
    else:
        state = [leaf for wanted in settings["state"] for leaf in named(wanted)]
    for leaf, shape in cameras:
        if shape is None:
            raise Refused(
                "observation %r has shape %s and type %s; a camera has bytes (uint8) in height x width x "
                "channels" % (leaf.name, leaf.shape, leaf.dtype)
            )
    for leaf in state:
        if leaf.shape is None or leaf.dtype.kind not in "biuf":
            raise Refused("observation %r is not an array of numbers; list the ones to use in `state`" % leaf.name)
    return state, cameras


class ObsWriter:
    """Where observations are written: a state row and images for every environment."""

    def __init__(self, state, cameras, columns, frames):
        rows, at, self.numbers, self.images = len(columns), 0, [], []
        each = lambda leaf, whole: (leaf, whole, [whole[row, ...] for row in range(rows)])
        for leaf in state:
            part = columns[:, at : at + leaf.width()]
            self.numbers.append(each(leaf, part if leaf.choices else part.reshape((rows,) + leaf.shape)))
            at += leaf.width()
        for (leaf, shape), part in zip(cameras, frames):
            part = part.transpose(0, 3, 1, 2) if shape[3] else part
            self.images.append(each(leaf, part.reshape((rows,) + leaf.shape)))

    def put(self, obs, row, images):
        """Writes one environment's observation."""
        for leaf, _, targets in self.numbers + self.images if images else self.numbers:
            value = dig(obs, leaf.path) if leaf.path else obs
            if leaf.plain and type(value) is np.ndarray and value.shape == leaf.shape:
                targets[row][...] = value  # the usual way, and the quick one
            else:
                self.write(leaf, targets[row], array(value), leaf.shape)

    def put_all(self, obs, rows, images):
        """Writes the rows of a whole batch of observations; `rows` is None for all of them."""
        for leaf, whole, targets in self.numbers + self.images if images else self.numbers:
            value, expected = array(dig(obs, leaf.path)), (len(whole),) + leaf.shape
            if rows is None or value.shape != expected:
                self.write(leaf, whole, value, expected)
                continue
            for row in rows:
                self.write(leaf, targets[row], value[row], leaf.shape)

    @staticmethod
    def write(leaf, target, value, expected):
        if value.shape != expected:
            what = "observation %r" % leaf.name if leaf.name else "the observation"
            raise Refused("%s has shape %s, but should have %s" % (what, value.shape, expected))
        if leaf.plain:
            target[...] = value
            return
        target[...] = 0
        flat = value.reshape(target.shape[:-1] + (-1,))
        at = 0
        for place, (start, n) in enumerate(leaf.choices):
            np.put_along_axis(target[..., at : at + n], flat[..., place : place + 1].astype(np.int64) - start, 1, -1)
            at += n


# ------------------------------------------------------------------------------------------------- actions


def action_code(space):
    """The description of a space of actions, and how to read rows of float32 as its members."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return {"discrete": int(space.n)}, lambda rows: rows[:, 0].astype(np.int64) + int(space.start)
    if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)):
        sizes = space.nvec if isinstance(space, spaces.MultiDiscrete) else np.full(space.shape, 2)
        start = np.asarray(getattr(space, "start", 0))
        total = int(np.prod(sizes.astype(object)))
        if total > MOST_CHOICES:
            raise Refused("an action is one of %d combinations, too many to number; wrap the environment" % total)

        def unravel(rows):
            parts = np.unravel_index(rows[:, 0].astype(np.int64), sizes.flatten())
            return (np.stack(parts, -1).reshape((-1,) + sizes.shape) + start).astype(space.dtype)

        return {"discrete": total}, unravel
    if isinstance(space, spaces.Box):
        whole = np.issubdtype(space.dtype, np.integer)

        def shape(rows):
            rows = np.rint(rows) if whole else rows
            return rows.reshape((-1,) + space.shape).astype(space.dtype)

        bounds = [[float(x) if np.isfinite(x) else None for x in b.flatten()] for b in (space.low, space.high)]
        return {"low": bounds[0], "high": bounds[1]}, shape
    raise Refused("actions of %s cannot be written as one number or a row of numbers; wrap the environment" % space)


# ---------------------------------------------------------------------------------------------- environments


class Rows:
    """Separate environments, stepped one after the other and reset with a seed for every episode."""

    def __init__(self, envs, leaves, settings):
        self.envs, self.settings, self.leaves = envs, settings, leaves
        self.action_space = envs[0].action_space

    def about(self):
        return self.envs[0]

    def example_frame(self):
        self.envs[0].reset(seed=0)
        return array(self.envs[0].render())

    def join(self, board):
        self.board = board

    def reset(self, watch):
        for row, env in enumerate(self.envs):
            self.show(row, env.reset(seed=int(self.board.seeds[row]))[0], self.board.now, watch == EVERYTHING)

    def step(self, actions, watch):
        board, ignore = self.board, self.settings["ignore_terminations"]
        for row, env in enumerate(self.envs):
            obs, reward, terminated, truncated, info = env.step(actions[row])
            ended = board.note(row, reward, terminated and not ignore, truncated, info)
            if ended:
                self.show(row, obs, board.last, watch != 0)
                obs = env.reset(seed=board.next_seed(row))[0]
            self.show(row, obs, board.now, watch == EVERYTHING)

    def show(self, row, obs, shown, images):
        shown.put(obs, row, images)
        if images and self.settings["render"]:
            self.board.frame(shown, row, self.envs[row].render())

    def close(self):
        for env in self.envs:
            env.close()


class BatchedEnv:
    """One batched environment. Subclasses know how its ended rows get to their next episode."""

    def __init__(self, env, leaves, settings):
        self.env, self.leaves, self.settings = env, leaves, settings
        self.count = settings["num_envs"]

    def about(self):
        return self.env

    def example_frame(self):
        self.env.reset(seed=0)
        return array(self.env.render()[0])

    def join(self, board):
        self.board = board

    def reset(self, watch):
        self.show(self.reset_all(), None, self.board.now, watch == EVERYTHING)

    def step(self, actions, watch):
        obs, reward, terminated, truncated, info = self.env.step(actions)
        board, column = self.board, self.column
        board.reward[:] = column(reward, "reward")
        truncated = column(truncated, "truncated").astype(bool)
        terminated = column(terminated, "terminated").astype(bool) & (not self.settings["ignore_terminations"])
        board.end[:] = terminated * TERMINATED + truncated * TRUNCATED
        board.success[:] = self.truth(info, board.success_paths, 0)
        for path, facts in zip(board.fact_paths, board.facts):
            facts[:] = self.truth(info, [path], np.nan)
        ended = np.flatnonzero(board.end)
        self.finish(obs, info, ended, watch)

    def finish(self, obs, info, ended, watch):
        """Shows what follows, after the ended rows have been reset by hand."""
        if len(ended):
            self.show(obs, ended, self.board.last, watch != 0)
            obs = self.reset_some(ended, obs)
        self.show(obs, None, self.board.now, watch == EVERYTHING)

    def show(self, obs, rows, shown, images):
        shown.put_all(obs, rows, images)
        if images and self.settings["render"]:
            frames = self.env.render()
            for row in range(self.count) if rows is None else rows:
                self.board.frame(shown, row, frames[row])

    def column(self, value, what):
        value = array(value)
        if value.shape not in ((), (self.count,)):
            raise Refused("%s has shape %s, but should have (%d,)" % (what, value.shape, self.count))
        return value

    def truth(self, info, paths, otherwise):
        for path in paths:
            value = find(info, path)
            if value is not None:
                return self.column(value, ".".join(path)).astype(np.float32)
        return otherwise

    def seed_list(self):
        return [int(seed) for seed in self.board.seeds]

    def close(self):
        self.env.close()


class MaskedVector(BatchedEnv):
    """A vector environment whose rows can be reset one by one (Gymnasium's automatic reset switched off)."""

    def reset_all(self):
        return self.env.reset(seed=self.seed_list())[0]

    def reset_some(self, ended, obs):
        mask = np.zeros(self.count, dtype=bool)
        mask[ended] = True
        seeds = [self.board.next_seed(row) if mask[row] else None for row in range(self.count)]
        return self.env.reset(seed=seeds, options={"reset_mask": mask})[0]


class SameStepVector(MaskedVector):
    """A vector environment that resets ended rows within the step; the end is found in `info`."""

    def finish(self, obs, info, ended, watch):
        board = self.board
        final_info = info.get("final_info")
        final = info.get("final_obs", info.get("final_observation"))
        if len(ended) and final is None:
            raise Refused("rows were reset within the step, but `info` has no `final_obs`: their end is lost")
        for row in ended:
            board.last.put(row_of(final, row), row, watch != 0)
            row_info = final_info
            if isinstance(final_info, np.ndarray):  # Gymnasium before 1.0: one dictionary per row
                row_info, pick = final_info[row], lambda value: value
            else:
                pick = lambda value: array(value)[row]
            board.note_facts(row, row_info, pick)
            if watch != 0 and self.settings["render"]:
                # The old episode's image is gone; the one rendered next is better than none.
                board.frame(board.last, row, self.env.render()[row])
        self.show(obs, None, board.now, watch == EVERYTHING)


class NextStepVector(MaskedVector):
    """A vector environment that resets ended rows during their next step, which takes no action.

    The end is reported one step late, together with the reset: the episode gets a last step that changes nothing
    and has no reward. So each step still shows the next episode's first observation, and learning is right.
    """

    def reset_all(self):
        self.waiting = np.zeros(self.count, dtype=np.uint8)
        self.solved = np.zeros(self.count, dtype=bool)
        return super().reset_all()

    def finish(self, obs, info, ended, watch):
        board = self.board
        end, success = board.end.copy(), board.success.copy()
        board.success[:] = np.where(self.waiting != 0, self.solved, success)
        board.end[:] = self.waiting
        self.waiting, self.solved = end, success
        if len(ended):
            self.show(obs, ended, board.last, watch != 0)
        self.show(obs, None, board.now, watch == EVERYTHING)


class ManiSkill(BatchedEnv):
    """A batch of ManiSkill environments on a GPU.

    ManiSkill samples what is random for all rows of a reset from the first seed, so rows get an episode of
    their own only if they are reset one by one.
    """

    def reset_all(self):
        if not self.settings["seed_every_episode"]:
            obs = self.env.reset(seed=self.seed_list())[0]
            show_hidden(self.env, self.settings)
            return obs
        for row, seed in enumerate(self.seed_list()):
            obs = self.reset_rows([row], [seed])
        return obs

    def reset_some(self, ended, obs):
        if not self.settings["seed_every_episode"]:
            return self.reset_rows(ended.tolist(), None)
        for row in ended.tolist():
            obs = self.reset_rows([row], [self.board.next_seed(row)])
        return obs

    def reset_rows(self, rows, seeds):
        import torch

        rows = torch.tensor(rows, device=self.env.unwrapped.device)
        obs = self.env.reset(seed=seeds, options={"env_idx": rows})[0]
        show_hidden(self.env, self.settings)
        return obs


class Unbatched:
    """A ManiSkill environment with one row, as a plain Gymnasium environment."""

    def __init__(self, env, settings):
        self.env, self.settings, self.unwrapped = env, settings, env.unwrapped
        self.action_space = getattr(env.unwrapped, "single_action_space", env.action_space)

    def reset(self, seed=None):
        obs, info = self.env.reset(seed=seed)
        show_hidden(self.env, self.settings)
        return first(obs), first(info)

    def step(self, action):
        return tuple(first(part) for part in self.env.step(action))

    def render(self):
        return first(self.env.render())

    def close(self):
        self.env.close()


def row_of(tree, row):
    """One row of an observation, be it an array of observations or a dictionary of arrays."""
    return {key: row_of(part, row) for key, part in tree.items()} if isinstance(tree, dict) else tree[row]


def first(tree):
    """Row 0 of everything batched."""
    if isinstance(tree, dict):
        return {key: first(part) for key, part in tree.items()}
    if hasattr(tree, "detach") or isinstance(tree, np.ndarray):
        tree = array(tree)
        return tree[0] if tree.ndim else tree[()]
    return tree


def show_hidden(env, settings):
    """Shows cameras what ManiSkill hides from them, such as the goal."""
    hidden = getattr(env.unwrapped, "_hidden_objects", None)
    if settings["show_hidden"] and hidden:
        for thing in hidden:
            thing.show_visual()
        hidden.clear()


# ------------------------------------------------------------------------------------------------- making


def make(settings):
    for name in settings["import"]:
        bring_in(name)
    arguments = dict(settings["kwargs"])
    if settings["max_episode_steps"] is not None:
        arguments["max_episode_steps"] = settings["max_episode_steps"]
    if settings["render"]:
        arguments.setdefault("render_mode", "rgb_array")
    if settings["entry_point"]:
        register(settings)
    build = {"rows": make_rows, "vector": make_vector, "async": make_vector, "maniskill": make_maniskill}
    return build[settings["way"]](settings, arguments)


def register(settings):
    """Gives what an entry point names an id, so that all else is as with environments that have one."""
    import gymnasium

    made = load(settings["entry_point"])
    settings["id"] = "plaudit/EntryPoint-v0"
    if isinstance(made, type) and issubclass(made, gymnasium.vector.VectorEnv):
        settings["way"] = "vector"
        gymnasium.register(settings["id"], vector_entry_point=made)
    else:
        gymnasium.register(settings["id"], entry_point=made)


def load(entry_point):
    """What an entry point names: `module:Class`, or `path/to/file.py:Class`. A function that makes one will do."""
    where, _, name = entry_point.rpartition(":")
    if not where or not name:
        raise Refused("entry_point is %r; write module:Class or path/to/file.py:Class" % entry_point)
    if where.endswith(".py") and not os.path.isfile(where):
        raise Refused("entry_point names %s, and there is no such file" % where)
    found = bring_in(where)
    for part in name.split("."):
        if not hasattr(found, part):
            there = [key for key, value in vars(found).items() if callable(value) and not key.startswith("_")]
            near = difflib.get_close_matches(part, there, 3, 0.5) or there[:8]
            raise Refused("%s has no %r; it has %s" % (where, name, ", ".join(near) or "nothing to make"))
        found = getattr(found, part)
    if not callable(found):
        raise Refused("%s of %s is a %s; name a class, or a function that makes an environment" % (name, where, type(found).__name__))
    return found


def make_rows(settings, arguments):
    import gymnasium

    envs = [gymnasium.make(settings["id"], **arguments) for _ in range(settings["num_envs"])]
    return Rows(envs, leaves_of_space(envs[0].observation_space), settings)


def make_vector(settings, arguments):
    import gymnasium

    mode, resets = {}, getattr(gymnasium.vector, "AutoresetMode", None)
    if settings["way"] == "async":
        mode["vectorization_mode"] = "async"
    if resets and (mode or gymnasium.spec(settings["id"]).vector_entry_point is None):
        mode["vector_kwargs"] = {"autoreset_mode": resets.DISABLED}
    env = gymnasium.make_vec(settings["id"], num_envs=settings["num_envs"], **mode, **arguments)
    old = int(gymnasium.__version__.split(".")[0]) < 1
    how = env.metadata.get("autoreset_mode", "SameStep" if old else "NextStep")
    how = getattr(how, "value", how)
    ways = {"Disabled": MaskedVector, "SameStep": SameStepVector, "NextStep": NextStepVector}
    if how not in ways:
        raise Refused("its vector environment has autoreset_mode %r; supported: %s" % (how, ", ".join(ways)))
    if settings["ignore_terminations"]:
        raise Refused("a vector environment resets by itself, so terminations cannot be ignored; use `rows`")
    batch = ways[how](env, leaves_of_space(env.single_observation_space), settings)
    batch.action_space = env.single_action_space
    return batch


def make_maniskill(settings, arguments):
    import gymnasium
    import mani_skill.envs  # registers the tasks

    count, backend = settings["num_envs"], str(arguments.get("sim_backend", "auto"))
    if count == 1 or "cpu" in backend:  # a simulation on the CPU has one row
        make_one = lambda: gymnasium.make(settings["id"], num_envs=1, **arguments)
        envs = [Unbatched(make_one(), settings) for _ in range(count)]
        for env in envs:
            show_hidden(env, settings)
        return Rows(envs, leaves_of_maniskill(envs[0].reset(seed=0)[0]), settings)
    env = gymnasium.make(settings["id"], num_envs=count, **arguments)
    show_hidden(env, settings)
    batch = ManiSkill(env, leaves_of_maniskill(first(env.reset(seed=0)[0])), settings)
    batch.action_space = env.unwrapped.single_action_space
    return batch


def time_limit(env):
    """Steps after which the outermost clock truncates."""
    while env is not None:
        limit = getattr(env, "_max_episode_steps", None)
        if isinstance(limit, int):
            return limit
        env = getattr(env, "env", None) or getattr(env, "envs", [None])[0]
    return None


def hello(batch, state, cameras, actions):
    env = batch.about()
    metadata = getattr(env.unwrapped, "metadata", None) or {}
    spec = getattr(env.unwrapped, "spec", None)
    limit = batch.settings["max_episode_steps"] or time_limit(env) or getattr(spec, "max_episode_steps", None)
    rate = getattr(env.unwrapped, "control_freq", None) or metadata.get("render_fps")
    frames = [(leaf.name or "image", shape[:3]) for leaf, shape in cameras]
    if batch.settings["render"]:
        frame = batch.example_frame()
        if frame.ndim != 3 or frame.dtype != np.uint8:
            raise Refused("render() gives %s of %s, not an image" % (frame.dtype, frame.shape))
        frames.append((batch.settings["render"], frame.shape))
    return {
        "state_width": sum(leaf.width() for leaf in state),
        "cameras": [dict(zip(("name", "height", "width", "channels"), (n,) + tuple(s))) for n, s in frames],
        "actions": actions,
        "max_episode_steps": limit,
        "control_hz": float(rate) if rate else None,
    }


class Board:
    """The arrays both sides see."""

    def __init__(self, arrays, batch, state, cameras):
        settings = batch.settings
        frames = lambda prefix: [arrays["%s_camera_%d" % (prefix, k)] for k in range(settings["frames"])]
        self.actions, self.seeds, self.reward = arrays["actions"], arrays["seeds"], arrays["reward"]
        self.end, self.success, self.facts = arrays["end"], arrays["success"], arrays["facts"]
        self.now = ObsWriter(state, cameras, arrays["now_state"], frames("now"))
        self.last = ObsWriter(state, cameras, arrays["last_state"], frames("last"))
        self.now.rendered, self.last.rendered = ((frames(which) or [None])[-1] for which in ("now", "last"))
        self.seed_every_episode = settings["seed_every_episode"]
        names = [settings["success"]] if settings["success"] else SUCCESS
        self.success_paths = [name.split(".") for name in names]
        self.fact_paths = [name.split(".") for name in settings["facts"]]

    def next_seed(self, row):
        return int(self.seeds[row]) if self.seed_every_episode else None

    def note(self, row, reward, terminated, truncated, info):
        """Writes what one environment's step did, and says whether its episode ended."""
        self.reward[row] = float(reward)
        end = (TERMINATED if terminated else 0) + (TRUNCATED if truncated else 0)
        self.end[row] = end
        self.note_facts(row, info, lambda value: value)
        return end != 0

    def note_facts(self, row, info, pick):
        self.success[row] = False
        if self.fact_paths:
            self.facts[:, row] = np.nan
        if not info:
            return
        for path in self.success_paths:
            value = find(info, path)
            if value is not None:
                self.success[row] = bool(pick(value))
                break
        for at, path in enumerate(self.fact_paths):
            value = find(info, path)
            if value is None and path[-1].isdigit():  # one number of a list: `intervene_action.0`
                values = find(info, path[:-1])
                value = values[int(path[-1])] if values is not None and int(path[-1]) < len(values) else None
            if value is not None:
                self.facts[at, row] = float(pick(value))

    def frame(self, shown, row, image):
        target, image = shown.rendered[row], array(image)
        if image.shape != target.shape or image.dtype != np.uint8:
            raise Refused("render() gave %s of %s, before that %s" % (image.dtype, image.shape, target.shape))
        target[...] = image


# --------------------------------------------------------------------------------------------------- errors


def nearest(name):
    """Registered ids that look like `name`."""
    import gymnasium

    name = name.split(":")[-1]
    by_lower = {known.lower(): known for known in gymnasium.registry}
    return [by_lower[known] for known in difflib.get_close_matches(name.lower(), by_lower, 3, 0.6)]


def describe(error, settings):
    report = report_of(error, ("numpy", "gymnasium", "mani_skill"))
    if report["kind"] != "raised":
        return report
    try:
        import gymnasium

        if isinstance(error, gymnasium.error.UnregisteredEnv):
            return dict(report, kind="unknown_id", error=str(error), nearest=nearest(settings["id"]))
    except Exception:
        pass
    return report


# ----------------------------------------------------------------------------------------------------- loop


def start(link, settings):
    import gymnasium  # first of all, so that its absence is what is reported

    batch = make(settings)
    state, cameras = choose(batch.leaves, settings)
    actions, decode = action_code(batch.action_space)
    about = hello(batch, state, cameras, actions)
    settings["frames"] = len(about["cameras"])
    link.send(b"j", about)
    batch.join(Board(link.map(link.read_json()), batch, state, cameras))
    os.write(link.socket, b"k")
    return batch, decode


def serve(link, settings, batch, decode):
    actions, socket, link.spin_secs = batch.board.actions, link.socket, settings["spin_secs"]
    while True:
        order = link.read_order()
        if len(order) < 2:
            break
        try:
            if order[0] == 115:  # b"s"
                batch.step(decode(actions), order[1])
            else:
                batch.reset(order[1])
            os.write(socket, b"k")
        except Exception as error:
            link.send(b"e", describe(error, settings))
    batch.close()


def main():
    global np
    link = Link()
    die_with_parent()
    explain_crashes()
    settings = link.read_json()
    try:
        import numpy as np

        batch, decode = start(link, settings)
    except EOFError:
        return
    except Exception as error:
        link.send(b"e", describe(error, settings))
        return
    try:
        serve(link, settings, batch, decode)
    except (BrokenPipeError, ConnectionResetError):
        pass


main()
