/// <reference types="vitest/config" />
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type ProxyOptions } from 'vite';

// While developing, `belljar serve` answers behind the development server; BELLJAR_KEY is sent for the page.
const service = process.env['BELLJAR_SERVICE'] ?? 'http://127.0.0.1:7878';
const key = process.env['BELLJAR_KEY'];
const proxied: ProxyOptions = {
  target: service,
  changeOrigin: true,
  headers: key ? { authorization: `Bearer ${key}` } : {},
};

export default defineConfig({
  base: './',
  plugins: [svelte()],
  build: {
    target: 'es2022',
    // The page may load fonts and images from the service alone, not from `data:`.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { '/v1': proxied, '/login': proxied, '/logout': proxied } },
  resolve: process.env['VITEST'] ? { conditions: ['browser'] } : {},
  test: { environment: 'jsdom', include: ['tests/**/*.test.ts'], restoreMocks: true },
});
