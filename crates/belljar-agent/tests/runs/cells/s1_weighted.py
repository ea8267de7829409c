def risk_at(scenario, lat, lng):
    return sum(r['risk_level'] for r in scenario.risks if haversine(r['lat'], r['lng'], lat, lng) < 5)

def weighted(scenario, task, carrier):
    far = nearest(scenario, task, carrier)
    urgent = {'高': 0.5, '中': 0.3, '低': 0.1}[task.priority]
    eta = far / speed[carrier.carrier_type]
    spare = (carrier.capacity - task.quantity) / 60
    return (1 - urgent) * far / 80 + urgent * eta / 1.5 + 0.1 * spare + 0.05 * risk_at(scenario, carrier.lat, carrier.lng) / 3

scored = [schedule(s, weighted) for s in scenarios()]
print(f"加权总距离 {sum(r['total'] for r in scored):.2f} 公里，未指派 {sum(len(r['lost']) for r in scored)}")
