"""The perspective relaxation of a best subset, and what it decides about single columns.

Let S ⪰ D with D diagonal and positive, G = S − D. For any u,

    βᵀSβ − 2bᵀβ ≥ −uᵀGu + Σ_j (D_j β_j² − 2 r_j β_j),    r = b − Gu,

so with at most k non-zeros it is at least −uᵀGu less the k largest of r_j² / D_j. The same sort
tells what a column that must be in, or out, does to that. The best u comes from the relaxation

    min over 0 ≤ z ≤ 1, Σz ≤ k of  min over β of  βᵀGβ − 2bᵀβ + Σ_j D_j β_j² / z_j,

by Newton's method on its conditions of optimality: only the columns with z_j > 0, which are few,
enter a linear system. Groups of columns of which one at least must be in keep all of this simple.

Which D makes much of the difference. With T = S⁻¹, D may be anything with λ_max(√D T √D) ≤ 1, and
the bound changes by z_j (1 − z_j) r_j² / D_j per unit of log D_j: columns that are neither in nor
out want curvature, the others can do without. So log D climbs along that, and is shifted back by
the largest eigenvalue, smoothed over the nearest ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as la

from relaxations import Patience
from relaxations.jit import outer

_EPS = float(np.finfo(float).eps)
_STEPS = 25
_KEPT = 3e7  # entries of S to keep: a quarter of a gigabyte
_NEW, _SORTINGS = 20, 10  # columns that come in with one step; tries to sort them
_TOP = 8  # eigenvalues that count as the largest
_SHARP = 30.0  # how much less they count the smaller they are
_STRIDE = 0.5  # first step of log D


class Dense:
    """A matrix S that is written down, its entries at most one."""

    def __init__(self, S: np.ndarray) -> None:
        self._S = S
        self.length = len(S)

    def block(self, on: np.ndarray) -> np.ndarray:
        """The rows and columns `on`."""
        return self._S[np.ix_(on, on)]

    def times(self, on: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Su for a u that is zero but for the entries `on`."""
        return self._S[:, on] @ u


class Rows:
    """Rows of S = XᵀX + D, columns of length one at most, made when they are first needed.

    Parameters
    ----------
    columns : ndarray
        The columns of X, as rows.
    D : ndarray
    """

    def __init__(self, columns: np.ndarray, D: np.ndarray) -> None:
        self._columns, self._D = columns, D
        self.size, self.length = columns.shape
        self._forget()

    def __reduce__(self) -> tuple[type[Rows], tuple[np.ndarray, np.ndarray]]:
        """Workers make the rows that they need."""
        return Rows, (self._columns, self._D)

    def _forget(self) -> None:
        self._made = np.empty((0, self.size))
        self._count = 0
        self._place = np.full(self.size, -1)

    def at(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """An array of rows of S, and where these are in it."""
        new = positions[self._place[positions] < 0]
        if (self._count + len(new)) * self.size > _KEPT:
            self._forget()
            new = positions
        if len(new):
            end = self._count + len(new)
            if end > len(self._made):
                rows = max(end, min(2 * len(self._made), int(_KEPT / self.size)))
                more = np.empty((rows - self._count, self.size))
                self._made = np.concatenate([self._made[: self._count], more])
            self._made[self._count : end] = self._columns[new] @ self._columns.T
            self._made[np.arange(self._count, end), new] += self._D[new]
            self._place[new] = np.arange(self._count, end)
            self._count = end
        return self._made, self._place[positions]


@outer
def _combine(rows: np.ndarray, places: np.ndarray, u: np.ndarray) -> np.ndarray:
    """A sum of rows times u, without copying them."""
    total = np.zeros(rows.shape[1])
    for i in range(places.size):
        total += u[i] * rows[places[i]]
    return total


class Ridged:
    """S = XᵀX + D for some of its columns."""

    def __init__(self, rows: Rows, columns: np.ndarray) -> None:
        self._rows, self._columns = rows, columns
        self.length = rows.length

    def block(self, on: np.ndarray) -> np.ndarray:
        """The rows and columns `on`."""
        some = self._columns[on]
        rows, places = self._rows.at(some)
        return rows[np.ix_(places, some)]

    def times(self, on: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Su for a u that is zero but for the entries `on`."""
        return _combine(*self._rows.at(self._columns[on]), u)[self._columns]


Gram = Dense | Ridged


@dataclass(frozen=True)
class Choice:
    """The first columns are in, and k others may be: of each group one at least.

    Parameters
    ----------
    k : int
    inside : int
        So many columns, the first, are in.
    group : ndarray of int
        The group of each column; -1 for those in none.
    groups : int
        Their number, at most k; none is empty.
    """

    k: int
    inside: int
    group: np.ndarray
    groups: int

    @staticmethod
    def of(k: int, columns: int) -> Choice:
        """Any k columns."""
        return Choice(k, 0, np.full(columns, -1), 0)

    def leaders(self, score: np.ndarray) -> np.ndarray:
        """The column of each group with the largest score."""
        members = np.flatnonzero(self.group >= 0)
        order = members[np.argsort(score[members], kind="stable")]
        best = np.zeros(self.groups, dtype=np.int64)
        best[self.group[order]] = order  # the last one stays
        return best

    def budgets(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which budget each column draws on, and these: the common one first.

        A group that gets no more than its one has a budget of its own. -1 for columns without.
        """
        full = np.zeros(self.groups, bool)
        member = self.group >= 0
        full[np.bincount(self.group[member], z[member], self.groups) > 1.0 + 1e-9] = True
        own = np.where(full, 0, np.cumsum(~full))
        spare = self.k - int(np.sum(~full))
        label = np.full(len(z), 0 if spare else -1)
        label[member] = own[self.group[member]]
        label[: self.inside] = -1
        return label, np.append(spare, np.ones(int(np.sum(~full))))

    def fill(self, size: np.ndarray) -> np.ndarray:
        """The z for which Σ size_j² / z_j is smallest."""
        z = np.ones(len(size))
        member, own = self.group >= 0, np.zeros(self.groups, bool)
        common = np.arange(len(size)) >= self.inside
        while True:
            z[common] = _pour(size[common], self.k - int(own.sum()))
            some = member & common
            sums = np.bincount(self.group[some], z[some], self.groups)
            short = np.flatnonzero(~own & (sums < 1.0 - 1e-12))
            if not len(short):
                return z
            for g in short:  # its one is all that it gets
                mine = self.group == g
                z[mine] = _pour(size[mine], 1)
                common &= ~mine
                own[g] = True


def _pour(size: np.ndarray, k: int) -> np.ndarray:
    """min(1, size / s) with s such that the sum is k."""
    z = np.zeros(len(size))
    on = np.flatnonzero(size)
    if len(on) <= k or k == 0:
        z[on if len(on) else np.arange(len(size))[:k]] = min(k, 1.0)
        return z
    order = on[np.argsort(-size[on], kind="stable")]
    rest = np.cumsum(size[order][::-1])[::-1][:k]  # what the first so many leave
    s = rest / (k - np.arange(k))
    z[on] = np.minimum(size[on] / s[np.argmax(size[order[:k]] <= s)], 1.0)
    return z


@dataclass(frozen=True)
class Relaxed:
    """A bound, and what each column adds to it.

    Parameters
    ----------
    bound : float
        Lower bound on βᵀSβ − 2bᵀβ, rounding included.
    score : ndarray
        r_j² / D_j.
    z, r : ndarray
        The point that the bound comes from, and its r.
    choice : Choice
    """

    bound: float
    score: np.ndarray
    z: np.ndarray
    r: np.ndarray
    choice: Choice

    def forced(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds with each free column in, and with each free column out."""
        choice, score = self.choice, self.score
        group, spare = choice.group, choice.k - choice.groups
        leaders = choice.leaders(score)
        role = np.zeros(len(score), bool)
        role[leaders] = True
        role[: choice.inside] = True
        rest = np.flatnonzero(~role)
        rest = rest[np.argsort(-score[rest], kind="stable")]
        last = score[rest[spare - 1]] if spare else np.inf
        after = score[rest[spare]] if spare < len(rest) else 0.0
        top = np.zeros(len(score), bool)
        top[rest[:spare]] = True
        cost_in, cost_out = last - score, np.where(top, score - after, 0.0)
        if choice.groups:
            member = np.flatnonzero(group >= 0)
            best = score[leaders][group[member]]
            cost_in[member] = np.minimum(best, last) - score[member]
            cost_in[leaders] = 0.0
            behind = score.copy()
            behind[leaders] = -1.0
            runner = choice.leaders(behind)
            second = np.where(top[runner], after, behind[runner])
            cost_out[leaders] = np.where(second < 0.0, np.inf, score[leaders] - second)
        cost_in[top] = 0.0
        low = choice.inside
        return (self.bound + np.maximum(cost_in[low:], 0.0),
                self.bound + np.maximum(cost_out[low:], 0.0))


class Diagonals:
    """Diagonals D with S ⪰ D, by their logarithms up to a shift.

    Parameters
    ----------
    T : ndarray
        The inverse of S.
    theta : float
        Its relative error.
    """

    def __init__(self, T: np.ndarray, theta: float) -> None:
        self._T = T
        self._theta = theta

    def at(self, log: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """D, and how the shift depends on each logarithm: weights that add up to one."""
        size = np.exp(0.5 * log)
        n = len(log)
        lowest = max(0, n - _TOP)
        values, vectors = la.eigh(
            size[:, None] * self._T * size, subset_by_index=[lowest, n - 1], check_finite=False
        )
        weight = np.exp(_SHARP * (values / values[-1] - 1.0))
        largest = values[-1] * (1.0 + 10.0 * _EPS * n)
        D = (1.0 - 3.0 * self._theta) / largest * size**2
        return D, vectors**2 @ (weight / weight.sum())

    def start(self) -> np.ndarray:
        """What a column costs alone, for D of the right proportions."""
        return -np.log(self._T.diagonal())


def evaluate(
    S: Gram, b: np.ndarray, D: np.ndarray, choice: Choice, z: np.ndarray
) -> tuple[float, Relaxed]:
    """The value of the relaxation at z, and the bound that its solution gives."""
    on = np.flatnonzero(z)
    scale = np.sqrt(z[on] / D[on])
    G = S.block(on) - np.diag(D[on])
    system = np.eye(len(on)) + scale[:, None] * G * scale
    u = scale * la.solve(system, scale * b[on], assume_a="pos", check_finite=False)
    Su = S.times(on, u)
    r = b - Su
    r[on] += D[on] * u
    weight = float(np.abs(u).sum())
    n = S.length + len(on) + 5.0
    # Entries of S and b are at most one.
    score = (np.abs(r) + _EPS * n * (1.0 + 2.0 * weight)) ** 2 / D
    leaders = choice.leaders(score)
    rest = score[choice.inside :].copy()
    rest[leaders - choice.inside] = -1.0
    spare = choice.k - choice.groups
    top = float(score[: choice.inside].sum() + score[leaders].sum())
    if spare:
        top += float(np.partition(rest, -spare)[-spare:].clip(0.0).sum())
    curved = float(u @ Su[on] - D[on] @ (u * u))
    bound = -curved - top - _EPS * n * (2.0 * weight**2 + 2.0 * top)
    return -float(b[on] @ u), Relaxed(bound, score, z, r, choice)


def _jump(
    S: Gram, b: np.ndarray, D: np.ndarray, found: Relaxed, most: int
) -> np.ndarray | None:
    """z where the relaxation is solved, if the columns are sorted into the right kinds.

    With λ = s² the multiplier of Σz ≤ k, a solution has r_j = s √D_j sign β_j and
    z_j = √D_j |β_j| / s where 0 < z_j < 1, r_j = D_j β_j and √D_j |β_j| ≥ s where z_j = 1, and
    |r_j| ≤ s √D_j where z_j = 0. A group with Σz = 1 has a smaller s of its own. For given kinds
    these conditions are linear in β and the s. At most so many columns come in.
    """
    choice, z = found.choice, found.z
    label, room = choice.budgets(z)
    ratio = found.score / _levels(label, room, z, found.score)[label]
    on = np.flatnonzero(z)
    new = np.flatnonzero((z == 0.0) & (ratio > 1.0) & (label >= 0))
    on = np.union1d(on, new[np.argsort(-ratio[new], kind="stable")[:most]])
    kinds = _Kinds(S.block(on), b[on], D[on], np.sign(found.r[on]), label[on], room)
    beta = kinds.settle((z[on] == 1.0) & (ratio[on] > 1.0), ratio[on], most)
    if beta is None:
        return None
    size = np.zeros(len(z))
    size[on] = np.sqrt(D[on]) * np.abs(beta)
    return choice.fill(size)


@dataclass(frozen=True)
class _Kinds:
    """The conditions of optimality for columns of known signs; see `_jump`.

    `label` is the budget that a column draws on, -1 for those that are in anyway; `room` are the
    budgets.
    """

    S: np.ndarray
    b: np.ndarray
    D: np.ndarray
    sign: np.ndarray
    label: np.ndarray
    room: np.ndarray

    def settle(self, full: np.ndarray, worth: np.ndarray, most: int) -> np.ndarray | None:
        """β, beginning with a guess at the z_j that are one; None if there is no solution.

        At most so many columns leave at a time.
        """
        there, always = np.ones(len(full), bool), self.label < 0
        full = full | always
        beta = np.zeros(len(full))
        for _ in range(_SORTINGS):
            room = self._room(full, worth)
            solved = self._solve(np.flatnonzero(there), full, room)
            if solved is None:
                return None
            beta, s = solved
            gone = np.flatnonzero(there & ~full & (beta * self.sign <= 0.0))
            gone = gone[np.argsort(-np.abs(beta[gone]), kind="stable")[:most]]
            there[gone] = False
            now = always | (there & (np.sqrt(self.D) * np.abs(beta) >= s[self.label]))
            if not len(gone) and np.all(now == full):
                break
            full = now
        return beta * there

    def _room(self, full: np.ndarray, worth: np.ndarray) -> np.ndarray:
        """What is left of the budgets; `full` is cut down until that is one at least."""
        room = self.room.copy()
        for g in range(len(room)):
            mine = np.flatnonzero(full & (self.label == g))
            excess = len(mine) + 1 - int(room[g])
            if excess > 0 and len(mine):
                full[mine[np.argsort(worth[mine], kind="stable")[:excess]]] = False
            room[g] = max(1.0, room[g] - len(mine))
        return room

    def _solve(
        self, kept: np.ndarray, full: np.ndarray, room: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """β, zero but for those kept, and the s."""
        part = kept[~full[kept]]
        V = np.zeros((len(full), len(room)))
        V[part, self.label[part]] = np.sqrt(self.D[part]) * self.sign[part]
        M = self.S - np.diag(np.where(full, 0.0, (1.0 - 1e-9) * self.D))
        try:
            right = np.column_stack([self.b, V])[kept]
            found = la.solve(M[np.ix_(kept, kept)], right, assume_a="pos", check_finite=False)
            s = la.solve(np.diag(room) + V[kept].T @ found[:, 1:], V[kept].T @ found[:, 0])
        except la.LinAlgError:
            return None
        beta = np.zeros(len(full))
        beta[kept] = found[:, 0] - found[:, 1:] @ s
        return beta, s


def _levels(
    label: np.ndarray, room: np.ndarray, z: np.ndarray, score: np.ndarray
) -> np.ndarray:
    """What a column must score to be of use, for each budget."""
    level = np.ones(len(room))
    for g in range(len(room)):
        mine = label == g
        part = z[mine] * (1.0 - z[mine])
        if part.any():
            level[g] = part @ score[mine] / part.sum()
        elif mine.any():
            worth = np.sort(score[mine])[::-1]
            level[g] = worth[min(int(room[g]), len(worth) - 1)]
    return np.maximum(level, 1e-300)


def relax(
    S: Gram, b: np.ndarray, D: np.ndarray, choice: Choice, z: np.ndarray, goal: float
) -> Relaxed:
    """Improve z until the bound reaches the goal or stops rising.

    Parameters
    ----------
    S, b : Gram, ndarray
        Of columns of length one at most.
    D : ndarray
        S ⪰ D.
    choice : Choice
    z : ndarray
        Where to begin.
    goal : float
        A bound that is high enough.
    """
    value, best = evaluate(S, b, D, choice, choice.fill(z))
    found = best
    for _ in range(_STEPS):
        if best.bound >= goal or value - best.bound <= 0.03 * max(goal - value, 1e-5):
            break
        for most in (max(_NEW, int(np.count_nonzero(found.z)) // 2), 1):
            target = _jump(S, b, D, found, most)
            if target is not None:
                trial = evaluate(S, b, D, choice, target)
                if trial[0] < value:
                    break
        else:
            break
        value, found = trial
        if found.bound > best.bound:
            best = found
    return best


def climb(
    S: Gram, b: np.ndarray, diagonals: Diagonals, k: int, log: np.ndarray, z: np.ndarray,
    goal: float, rounds: int, patience: Patience,
) -> tuple[Relaxed, np.ndarray]:
    """Improve D and z in turn until the goal is reached or decides about many columns.

    Returns the best bound found and the logarithms of its D.
    """
    choice = Choice.of(k, len(b))
    best: Relaxed | None = None
    kept, first = log, 0.0
    for count in range(rounds):
        D, pull = diagonals.at(log)
        found = relax(S, b, D, choice, z if best is None else best.z, goal)
        if best is None:
            first = found.bound
        if best is None or found.bound > best.bound:
            best, kept = found, log
        decided = sum(int(np.sum(part >= goal)) for part in best.forced())
        if best.bound >= goal or decided >= 0.25 * len(b) or patience.expired():
            break
        if count >= 4 and best.bound - first < 0.02 * count * (goal - first):  # not worth it
            break
        push = found.z * (1.0 - found.z) * found.score
        total = float(push.sum())
        if total <= 0.0:  # the relaxation is integral: D has no say
            break
        step = push / total - pull
        log = log + _STRIDE / (1.0 + 0.1 * count) * step / np.abs(step).max()
    assert best is not None
    return best, kept
