from itertools import combinations
from pathlib import Path
import networkx as nx
import numpy as np
import pandas as pd

def table(name):
    frame = pd.read_csv(name, sep='\t', encoding='utf-8-sig', dtype={'house_number': str})
    frame.columns = [column.strip().replace(' ', '_') for column in frame.columns]
    return frame

addresses = table('CN-addresses-beijing.tsv')
houses = table('CN-houses-beijing.tsv')
streets = table('CN-streets-beijing.tsv')
streets = streets[streets['state'] == '北京市']
valid = set(streets['street_name']) | set(houses['street'])
addresses = addresses[addresses['street_'].isin(valid)]
places = list(zip(addresses['street_'], addresses['x_min'], addresses['y_min'])) + list(zip(houses['street'], houses['x'], houses['y']))
graph = nx.Graph()
graph.add_nodes_from(valid)
for (a, ax, ay), (b, bx, by) in combinations(places, 2):
    if a != b and np.hypot(ax - bx, ay - by) < 0.001:
        graph.add_edge(a, b)
component = max(nx.connected_components(graph), key=len)
addresses = addresses.dropna()
addresses = addresses[addresses['street_'].isin(component)]
houses = houses.dropna()
houses = houses[houses['street'].isin(component)]
streets = streets.dropna()
streets = streets[streets['street_name'].isin(component)]
folder = Path('filtered_bj')
folder.mkdir()
for name, frame in [('addresses', addresses), ('houses', houses), ('streets', streets)]:
    frame.to_csv(folder / f'CN-{name}.tsv', sep='\t', index=False, encoding='utf-8-sig')
print(f'addresses {len(addresses)}, houses {len(houses)}, streets {len(streets)}, component {len(component)}')
