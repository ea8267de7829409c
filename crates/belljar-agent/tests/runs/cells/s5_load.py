raw = json.loads(Path('1100_drw_beijing.json').read_text(encoding='utf-8'))
rejected = []
for i, line in enumerate(raw['l']):
    sound = []
    for k, station in enumerate(line['st']):
        try:
            DrwStation.model_validate(station)
            sound.append(station)
        except ValidationError as error:
            rejected.append(f"l.{i}.st.{k} {station['n']}: {error.errors()[0]['msg']}")
    line['st'] = sound
drawing = DrwSubwayData.model_validate(raw)
info = load('1100_info_beijing.json', InfoSubwayData)
first = drawing.l[0].st[0]
print(drawing.s, drawing.i, first.n, parse_lon_lat(first.sl))
direction = info.l[0].st[0].d[0]
print(direction.ls, direction.lt)
print(sum(len(line.st) for line in drawing.l), len(rejected), *rejected, sep='\n')
