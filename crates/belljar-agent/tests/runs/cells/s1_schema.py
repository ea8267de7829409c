import json
with open('schema.json', encoding='utf-8') as file:
    schema = json.load(file)
entities = sorted(schema['definitions'])
print(len(entities), '个实体：', '、'.join(entities))
