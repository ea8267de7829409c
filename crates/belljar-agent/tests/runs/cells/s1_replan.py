import heapq

def dijkstra(scenario, start, goal, risky):
    graph = {}
    for path in scenario.paths:
        a, b = scenario.locations[path['from']], scenario.locations[path['to']]
        factor = 1 + risk_at(scenario, a.lat, a.lng) + risk_at(scenario, b.lat, b.lng) if risky else 1
        length = haversine(a.lat, a.lng, b.lat, b.lng) * factor
        graph.setdefault(path['from'], []).append((length, path['to']))
        graph.setdefault(path['to'], []).append((length, path['from']))
    queue, seen = [(0.0, start, [start])], set()
    while queue:
        cost, at, way = heapq.heappop(queue)
        if at == goal:
            return cost, way
        if at not in seen:
            seen.add(at)
            for length, to in graph[at]:
                heapq.heappush(queue, (cost + length, to, way + [to]))

one = scenarios()[0]
for risky, word in [(False, '原路径'), (True, '重规划')]:
    cost, way = dijkstra(one, '地点0', '地点5', risky)
    print(f'{word} {cost:.3f}', '→'.join(way))
    plt.plot([one.locations[l].lng for l in way], [one.locations[l].lat for l in way], label=word)
plt.title('路径重规划（风险点更新权重）')
plt.legend()
save('03_replan.png')
