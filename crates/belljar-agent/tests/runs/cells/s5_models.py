import json
from pathlib import Path
from pydantic import BaseModel, ValidationError, field_validator

def parse_lon_lat(text):
    try:
        lon, lat = text.split(',')
        return float(lon), float(lat)
    except ValueError:
        return None

class DrwStation(BaseModel):
    rs: str | None = None
    sl: str | None = None
    n: str
    sid: str
    r: str | None = None
    t: str | None = None
    si: str

    @field_validator('sl')
    @classmethod
    def place(cls, v):
        if v is None:
            return v
        if not v.strip():
            raise ValueError('经纬度不能为空')
        if parse_lon_lat(v) is None:
            raise ValueError(f'无效的经纬度格式：{v}')
        return v

class DrwLine(BaseModel):
    st: list[DrwStation]

class DrwSubwayData(BaseModel):
    s: str
    i: str
    l: list[DrwLine]

class InfoDirection(BaseModel):
    ls: str
    lt: str | None = None
    n: str
    ft: str | None = None

class InfoStation(BaseModel):
    ac: str
    d: list[InfoDirection]
    si: str

class InfoLine(BaseModel):
    a: str
    st: list[InfoStation]

class InfoSubwayData(BaseModel):
    i: str
    l: list[InfoLine]

def load(name, model):
    if not Path(name).exists():
        raise FileNotFoundError(f'文件不存在：{name}')
    return model.model_validate(json.loads(Path(name).read_text(encoding='utf-8')))
