"""Leaf blocks: parts of a problem that one node separates from the rest, so that their cost is a cost of that node."""

from mavcg.choose.pbqp.problem import PbqpProblem


def leaf_block(problem: PbqpProblem) -> tuple[int, list[int]] | None:
    """Return (cut, nodes): removing the node `cut` separates these nodes, ascending and without `cut`, from all others.

    The problem must be connected. Returns the smallest such part that contains no smaller one; None if no single node
    separates any. Source: Hopcroft and Tarjan, "Algorithm 447: efficient algorithms for graph manipulation", CACM 1973
    (low points).
    """
    root = min(problem.costs)
    number, low, parent = {root: 0}, {root: 0}, {root: root}
    order = [root]
    unvisited = {root: iter(sorted(problem.edges[root]))}
    path = [root]
    blocks: list[tuple[int, int, int]] = []  # (number of nodes, cut, first node)
    last: dict[int, int] = {}
    has_cut_below: dict[int, bool] = {}
    while path:
        node = path[-1]
        for neighbour in unvisited[node]:
            if neighbour not in number:
                number[neighbour] = low[neighbour] = len(order)
                order.append(neighbour)
                parent[neighbour] = node
                unvisited[neighbour] = iter(sorted(problem.edges[neighbour]))
                path.append(neighbour)
                break
            low[node] = min(low[node], number[neighbour])
        else:
            path.pop()
            last[node] = len(order)
            if node == root:
                break
            above = parent[node]
            low[above] = min(low[above], low[node])
            beyond = last[node] - number[node]
            separates = beyond + 1 < len(problem.costs)
            if low[node] >= number[above] and separates and not has_cut_below.get(node, False):
                blocks.append((beyond, above, node))
            if low[node] >= number[above] or has_cut_below.get(node, False):
                has_cut_below[above] = True
    if not blocks:
        return None
    _, cut, first = min(blocks)
    return cut, sorted(order[number[first] : last[first]])
