class Fleet:
    """状态机：idle -> busy -> idle；时间步进，一轮结束后全部返回。"""
    def __init__(self, scenario):
        self.carriers = scenario.carriers
        self.rounds = 1

    def idle(self, task):
        able = [c for c in self.carriers if c.capacity >= task.quantity]
        if able and all(c.status == 'busy' for c in able):
            self.rounds += 1
            for c in self.carriers:
                c.status = 'idle'
        return [c for c in able if c.status == 'idle']

def schedule(scenario, score):
    fleet, total, delays, done, lost = Fleet(scenario), 0.0, [], [], []
    for task in sorted(scenario.tasks, key=lambda task: levels.index(task.priority)):
        able = fleet.idle(task)
        if not able:
            lost.append(task)
            continue
        best = min(able, key=lambda c: score(scenario, task, c))
        distance = haversine(best.lat, best.lng, task.to.lat, task.to.lng)
        total += distance
        delays.append(distance / speed[best.carrier_type] + (fleet.rounds - 1) * 0.5)
        best.lat, best.lng, best.status = task.to.lat, task.to.lng, 'busy'
        done.append(task)
    used = len(done) / (fleet.rounds * len(fleet.carriers))
    return dict(total=total, delays=delays, done=done, lost=lost, used=used)

speed = {'卡车': 60, '无人机': 80, '直升机': 200}

def nearest(scenario, task, carrier):
    return haversine(carrier.lat, carrier.lng, task.to.lat, task.to.lng)

greedy = [schedule(s, nearest) for s in scenarios()]
print(f"贪心总距离 {sum(r['total'] for r in greedy):.2f} 公里，未指派 {sum(len(r['lost']) for r in greedy)}")
