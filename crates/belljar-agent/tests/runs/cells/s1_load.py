from dataclasses import dataclass
from math import asin, cos, radians, sin, sqrt

@dataclass
class Location:
    location_id: str
    lat: float
    lng: float

@dataclass
class Carrier:
    carrier_id: str
    carrier_type: str
    capacity: int
    lat: float
    lng: float
    status: str = 'idle'

@dataclass
class Task:
    task_id: str
    priority: str
    disaster_type: str
    quantity: int
    to: Location

@dataclass
class Scenario:
    name: str
    tasks: list
    carriers: list
    locations: dict
    risks: list
    paths: list

def load(data):
    locations = {row['location_id']: Location(row['location_id'], row['lat'], row['lng']) for row in data['LOCATION']}
    needed = {row['resource_id']: row['quantity'] for row in data['RESOURCE']}
    tasks = [Task(row['task_id'], row['priority'], row['disaster_type'], needed[row['resource_id']], locations[row['to']]) for row in data['TASK']]
    carriers = [Carrier(row['carrier_id'], row['carrier_type'], row['capacity'], row['lat'], row['lng']) for row in data['CARRIER']]
    return Scenario(data['scenario'], tasks, carriers, locations, data['RISK_POINT'], data['PATH'])

def scenarios():
    return [load(data) for data in datasets.values()]

def haversine(a_lat, a_lng, b_lat, b_lng):
    a, b = radians(a_lat), radians(b_lat)
    part = sin((b - a) / 2) ** 2 + cos(a) * cos(b) * sin(radians(b_lng - a_lng) / 2) ** 2
    return 2 * 6371.0088 * asin(sqrt(part))

print(sum(len(s.tasks) for s in scenarios()), '个任务', sum(len(s.carriers) for s in scenarios()), '个载具')
