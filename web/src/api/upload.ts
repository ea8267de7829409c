// Large files go into a session in parts (tus 1.0): what has arrived counts when the connection breaks.
import { Problem, ask, route } from './client';

/** Files up to this size go in one request. */
const PART = 8 << 20;

const TUS = { 'Tus-Resumable': '1.0.0' };

/** Waits after a part that did not arrive, in seconds. */
const PATIENCE = [1, 2, 4, 8, 8, 8];

export type Progress = (share: number) => void;

/** Uploads a file, and tells how much of it has arrived. */
export async function upload(id: string, path: string, file: Blob, tell: Progress = () => {}): Promise<void> {
  if (file.size > PART) return uploadInParts(id, path, file, tell);
  await ask(route`v1/sessions/${id}/files/${path}`, {
    method: 'PUT',
    body: file,
    headers: { 'Content-Type': 'application/octet-stream' },
  });
}

async function uploadInParts(id: string, path: string, file: Blob, tell: Progress): Promise<void> {
  const created = await ask(route`v1/sessions/${id}/uploads`, {
    method: 'POST',
    headers: { ...TUS, 'Upload-Length': String(file.size), 'Upload-Metadata': `filename ${base64(path)}` },
  });
  const name = created.headers.get('Location')?.split('/').at(-1) ?? '';
  const place = route`v1/sessions/${id}/uploads/${name}`;
  let offset = 0;
  let failures = 0;
  tell(0);
  while (offset < file.size) {
    let response: Response;
    try {
      response = await ask(place, {
        method: 'PATCH',
        body: file.slice(offset, offset + PART),
        headers: { ...TUS, 'Content-Type': 'application/offset+octet-stream', 'Upload-Offset': String(offset) },
      });
      failures = 0;
    } catch (error) {
      if (!(error instanceof Problem) || !(error.retry || error.code === 'upload_offset')) throw error;
      response = await afterFailure(place, error, failures++);
    }
    offset = Number(response.headers.get('Upload-Offset'));
    tell(offset / file.size);
  }
}

/** Waits, and asks how much has arrived; throws what went wrong if it does so for too long. */
async function afterFailure(place: string, error: Problem, failures: number): Promise<Response> {
  for (const seconds of PATIENCE.slice(failures)) {
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    try {
      return await ask(place, { method: 'HEAD', headers: TUS });
    } catch (again) {
      // A refusal of `HEAD` has no body, so no code.
      if (!(again instanceof Problem) || (again.status !== 0 && again.status < 500)) throw again;
    }
  }
  throw error;
}

/** Of text in UTF-8. */
function base64(text: string): string {
  return btoa(String.fromCharCode(...new TextEncoder().encode(text)));
}
