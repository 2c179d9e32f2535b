"""Parts of a problem that hang on the rest by one node: what they cost is a cost of that node."""

from mavcg.selection.pbqp.problem import PbqpProblem


def leaf_block(problem: PbqpProblem) -> tuple[int, list[int]] | None:
    """Return (cut, nodes): removing the node `cut` parts these nodes, ascending and without it, from all others.

    Of a connected problem; the smallest such part that has no smaller one in it, None where no single node parts any.
    Source: Hopcroft and Tarjan, "Algorithm 447: efficient algorithms for graph manipulation", CACM 1973 (low points).
    """
    root = min(problem.costs)
    number, low, parent = {root: 0}, {root: 0}, {root: root}
    order = [root]
    unvisited = {root: iter(sorted(problem.edges[root]))}
    path = [root]
    found: list[tuple[int, int, int]] = []  # nodes beyond the cut, the cut, the first of them
    last: dict[int, int] = {}
    has_cut_below: dict[int, bool] = {}
    while path:
        node = path[-1]
        for other in unvisited[node]:
            if other not in number:
                number[other] = low[other] = len(order)
                order.append(other)
                parent[other] = node
                unvisited[other] = iter(sorted(problem.edges[other]))
                path.append(other)
                break
            low[node] = min(low[node], number[other])
        else:
            path.pop()
            last[node] = len(order)
            if node == root:
                break
            above = parent[node]
            low[above] = min(low[above], low[node])
            beyond = last[node] - number[node]
            parts_more = beyond + 1 < len(problem.costs)
            if low[node] >= number[above] and parts_more and not has_cut_below.get(node, False):
                found.append((beyond, above, node))
            if low[node] >= number[above] or has_cut_below.get(node, False):
                has_cut_below[above] = True
    if not found:
        return None
    _, cut, first = min(found)
    return cut, sorted(order[number[first] : last[first]])
