import glob
kinds = {'string': str, 'number': (int, float)}
datasets, problems = {}, []
for name in sorted(glob.glob('emergency_response_data_*.json')):
    with open(name, encoding='utf-8') as file:
        data = json.load(file)
    for entity, shape in schema['definitions'].items():
        for record in data[entity]:
            for key in shape['required']:
                rule = shape['properties'][key]
                value = record.get(key)
                if not isinstance(value, kinds[rule['type']]) or value not in rule.get('enum', [value]):
                    problems.append((name, entity, key, value))
    datasets[name] = data
print('Loaded', len(datasets), 'datasets,', sum(len(data[entity]) for data in datasets.values() for entity in entities), 'records,', len(problems), 'problems')
